// The API of the host. Each request carries the token, which this tab alone keeps.

const KEY = "exthost-token";

/** Take the token out of the address, where the first answer has put it. */
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
    history.replaceState(null, "", "/#/");
  }
  return sessionStorage.getItem(KEY);
}

export class ApiError extends Error {
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

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

function posted(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

export async function post(path, body = {}) {
  return (await ask(path, posted(body))).json();
}

/** Call `onEvent` with each event of a stream, until it ends or the signal aborts it. */
export async function stream(path, onEvent, { body, signal } = {}) {
  const answer = await ask(path, body === undefined ? { signal } : posted(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // An event may be large and come in many pieces: they are joined once, at its end.
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

/** Keep a stream open: when it ends, open it again. `onState` hears whether it is open. */
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
