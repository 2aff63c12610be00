// Copies and downloads texts.

import { el, setText } from "./dom.js";

/** Return a button that copies the text that `text` returns. */
export function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button", class: "small" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      setText(button, "Copied");
    } catch {
      setText(button, "Not allowed");
    }
    setTimeout(() => setText(button, label), 1500);
  });
  return button;
}

/** Offer a text as a file. */
export function download(name, content, type = "text/plain") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
