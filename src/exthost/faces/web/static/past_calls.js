// The calls that this page made, with their arguments, so that they can be shown and repeated.

const MAX_CALLS = 50;
const calls = []; // the newest first

/** Remember a call. Return the entry, to which the outcome is added when it ends. */
export function rememberCall(request, started) {
  const call = { request, started, ended: null, outcome: "" };
  calls.unshift(call);
  calls.length = Math.min(calls.length, MAX_CALLS);
  return call;
}

/** Return the request of a call that ended at about this time, or null. */
export function findRequest(extension, ended) {
  const near = calls.filter((call) => call.request.extension === extension && call.ended !== null);
  near.sort((a, b) => Math.abs(a.ended - ended) - Math.abs(b.ended - ended));
  return near.length && Math.abs(near[0].ended - ended) < 0.5 ? near[0].request : null;
}

let requestToRepeat = null;

/** Make the form of a tool begin with these arguments when it is shown next. */
export function prepareRepeat(request) {
  requestToRepeat = request;
}

/** Return the request to repeat, once, if it is for this extension. */
export function takeRepeat(extension) {
  const request = requestToRepeat?.extension === extension ? requestToRepeat : null;
  if (request) requestToRepeat = null;
  return request;
}
