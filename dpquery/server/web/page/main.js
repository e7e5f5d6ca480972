// Logs in, and shows the view of who has.

import { call, whenLoggedOut } from "./api.js";
import { byId, fill, show } from "./dom.js";
import { openAsk, prepareAsk } from "./ask.js";
import { openOwner } from "./owner.js";

function showLogin(said = "") {
  for (const id of ["ask", "owner", "views", "who"]) show(byId(id), false);
  show(byId("login"), true);
  fill(byId("login-said"), said);
  byId("login-form").elements.name.focus();
}

async function open(me) {
  show(byId("login"), false);
  show(byId("who"), true);
  fill(byId("name"), me.name);
  show(byId("views"), me.owner && me.analyst);
  if (me.analyst) await openAsk(me);
  await view(me.analyst ? "ask" : "owner");
}

async function view(name) {
  for (const one of ["ask", "owner"]) {
    show(byId(one), one === name);
    byId(`view-${one}`).toggleAttribute("aria-current", one === name);
  }
  if (name === "owner") await openOwner();
}

async function logIn(event) {
  event.preventDefault();
  const form = event.target, send = form.querySelector("button");
  send.disabled = true;
  fill(byId("login-said"));
  try {
    const me = await call("login", { name: form.elements.name.value, password: form.elements.password.value });
    form.reset();
    await open(me);
  } catch (error) {
    fill(byId("login-said"), error.message);
    form.elements.password.select();
  } finally {
    send.disabled = false;
  }
}

prepareAsk();
whenLoggedOut(() => showLogin("log in again, please"));
byId("login-form").addEventListener("submit", logIn);
byId("logout").addEventListener("click", () => call("logout").catch(() => {}).then(() => showLogin()));
byId("view-ask").addEventListener("click", () => view("ask"));
byId("view-owner").addEventListener("click", () => view("owner"));
call("me").then(open, () => showLogin());
