// Creates elements of the page. Every string is set as plain text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Set the attributes and listeners of a node, and append its children. Properties and children that are null,
 * undefined or false are left out. `onclick`, for example, is a listener of "click". */
function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.setAttribute("class", value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Return an HTML element. Children are elements and texts. */
export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Return an SVG element. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Return an element by its id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Set the text of an element only if it differs, because a screen reader reads each change. */
export function setText(node, text) {
  const shown = String(text);
  if (node.textContent !== shown) node.textContent = shown;
}
