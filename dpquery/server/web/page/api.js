// The server's calls: each a POST with JSON, and a header that other sites cannot send.

export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

let loggedOut = () => {};

/** Say what happens when the login has ended. */
export function whenLoggedOut(then) {
  loggedOut = then;
}

/** Ask the server, and return what it says; what it does not answer is thrown as Refused. */
export async function call(name, given = {}) {
  let response;
  try {
    response = await fetch(`/api/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-dpquery": "page" },
      body: JSON.stringify(given),
      credentials: "same-origin",
    });
  } catch {
    throw new Refused(0, "the server cannot be reached");
  }
  const told = await response.json().catch(() => ({ error: "the server said nothing that can be read" }));
  if (response.ok) return told;
  if (response.status === 401 && name !== "login") loggedOut(told.error);
  throw new Refused(response.status, told.error);
}

/** Take orders one at a time; of those that wait, only the newest is done. */
export function latest(work) {
  let running = false, next = null;
  return async function run(...given) {
    next = given;
    if (running) return;
    running = true;
    try {
      while (next) {
        const now = next;
        next = null;
        await work(...now);
      }
    } finally {
      running = false;
    }
  };
}
