// Sends requests to the API of the host that serves this page. Each request has the token, which only this tab stores.

const KEY = "exthost-token";

/** Move the token from the fragment of the URL, where the login put it, to the storage of this tab; return it. */
export function takeToken() {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (match) {
    sessionStorage.setItem(KEY, decodeURIComponent(match[1]));
    history.replaceState(null, "", "/#/");
  }
  return sessionStorage.getItem(KEY);
}

/** An error that the host has sent. `error` is its JSON: message, code, help and evidence. */
export class ApiError extends Error {
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

/** Send a request with the token, and return the response. Throws ApiError unless its status is a success. */
async function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.status === 401) {
    sessionStorage.removeItem(KEY);
    throw new ApiError({ message: "the token is not known to this host: open the address that it printed", code: "401" });
  }
  if (!answer.ok) {
    let error = { message: `the host answered ${answer.status}` };
    try {
      error = (await answer.json()).error ?? error;
    } catch { /* no JSON */ }
    throw new ApiError(error);
  }
  return answer;
}

export async function get(path, parameters = {}) {
  return (await ask(`${path}?${new URLSearchParams(parameters)}`)).json();
}

/** Return the body of a response as a file. */
export async function fetchBlob(path, parameters = {}) {
  return (await ask(`${path}?${new URLSearchParams(parameters)}`)).blob();
}

function postOptions(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

export async function post(path, body = {}) {
  return (await ask(path, postOptions(body))).json();
}

/** Call `onEvent` with each event of a stream, until it ends or the signal aborts it. */
export async function stream(path, onEvent, { body, signal } = {}) {
  const answer = await ask(path, body === undefined ? { signal } : postOptions(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = []; // of an event that is not complete
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // A large event comes in many chunks, which are joined once, when it is complete. An event ends with two
    // newlines, which can be in two chunks.
    let rest = parts.at(-1)?.endsWith("\n") ? parts.pop() + value : value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const text = parts.join("") + rest.slice(0, end);
      parts = [];
      rest = rest.slice(end + 2);
      if (text.startsWith("data: ")) onEvent(JSON.parse(text.slice(6)));
    }
    if (rest) parts.push(rest);
  }
}

/** Open a stream, and open it again whenever it ends, until `signal` aborts. `onState` gets whether it is open. */
export async function follow(path, onEvent, { signal, onState = () => {} }) {
  while (!signal.aborted) {
    try {
      await stream(path, (event) => { onState(true); onEvent(event); }, { signal });
    } catch (error) {
      if (signal.aborted) return;
      onState(false, error);
      if (error instanceof ApiError && error.error.code === "401") return;
    }
    if (!signal.aborted) {
      onState(false, null);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}
