// The colour theme: that of the system, light, or dark. The choice is kept for this browser.

import { byId, setText } from "./dom.js";

const KEY = "exthost-theme"; // in the storage of the browser
const THEMES = ["system", "light", "dark"];

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme"), `Theme: ${theme}`);
}

export function startTheme() {
  let theme = localStorage.getItem(KEY);
  if (!THEMES.includes(theme)) theme = "system";
  apply(theme);
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(KEY, theme);
    apply(theme);
  });
}
