// Creates a form from a JSON schema. What a form cannot express is entered as JSON; so can be the whole value.

import { el } from "./dom.js";

const MAX_DEPTH = 3;
let numbers = 0;

function typeOf(schema) {
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [schema.type];
  return types.length === 1 ? types[0] : undefined;
}

/**
 * Return the schema to which a `$ref` into the same document refers. Replace an anyOf or oneOf of a
 * single schema, besides null, by that schema.
 */
function resolved(schema, root, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
    let found = root;
    for (const part of schema.$ref.slice(2).split("/")) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      found = found && Object.hasOwn(found, name) ? found[name] : undefined;
    }
    return resolved(found, root, depth + 1);
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices) && !schema.type) {
    const some = choices.filter((choice) => choice?.type !== "null");
    if (some.length === 1) return { ...resolved(some[0], root, depth + 1), ...without(schema) };
  }
  return schema;
}

function without(schema) {
  const { anyOf, oneOf, ...others } = schema;
  return others;
}

/** Return one field: an element, and `read`, which returns its value, or undefined if it is empty. */
function field(name, given, root, isRequired, depth) {
  const schema = resolved(given, root);
  numbers += 1;
  const id = `field-${numbers}`;
  const title = el("label", { for: id }, schema.title ?? name, isRequired && el("span", { class: "required", title: "required" }, " *"));
  const hint = schema.description && el("p", { class: "hint", id: `${id}-hint` }, schema.description);
  const common = { id, required: isRequired, "aria-describedby": hint ? `${id}-hint` : null, "data-name": name };
  const type = typeOf(schema);
  const start = schema.default ?? (isRequired ? schema.const : undefined);
  let input, read;
  if (Array.isArray(schema.enum) && schema.enum.length) {
    const options = schema.enum.map((value, index) => el("option", { value: String(index) }, typeof value === "string" ? value : JSON.stringify(value)));
    input = el("select", common, !isRequired && el("option", { value: "" }, "(not set)"), options);
    const at = schema.enum.indexOf(start);
    if (at >= 0) input.value = String(at);
    read = () => (input.value === "" ? undefined : schema.enum[Number(input.value)]);
  } else if (type === "boolean") {
    if (isRequired || typeof start === "boolean") {
      input = el("input", { ...common, type: "checkbox", required: false, checked: start === true });
      read = () => input.checked;
    } else {
      input = el("select", common, el("option", { value: "" }, "(not set)"), el("option", { value: "true" }, "true"), el("option", { value: "false" }, "false"));
      read = () => (input.value === "" ? undefined : input.value === "true");
    }
  } else if (type === "number" || type === "integer") {
    input = el("input", { ...common, type: "number", step: type === "integer" ? "1" : "any", min: schema.minimum, max: schema.maximum, value: start ?? "" });
    read = () => (input.value === "" ? undefined : Number(input.value));
  } else if (type === "string") {
    const isLong = (schema.maxLength ?? 0) > 200 || /text|body|content|query|code|prompt|message/i.test(name) && !schema.format;
    input = isLong
      ? el("textarea", { ...common, rows: 2, maxlength: schema.maxLength, spellcheck: false })
      : el("input", { ...common, type: "text", maxlength: schema.maxLength, spellcheck: false, autocomplete: "off" });
    input.value = start ?? "";
    // An empty text is a value if the field is required; otherwise it means that there is no value.
    input.required = isRequired && (schema.minLength ?? 0) > 0;
    read = () => (input.value === "" && !isRequired ? undefined : input.value);
  } else if (type === "object" && schema.properties && depth < MAX_DEPTH) {
    const group = fields(schema, root, depth + 1);
    const element = el("fieldset", null, el("legend", null, schema.title ?? name, isRequired && " *"), hint, group.element);
    return { element, read: () => {
      const value = group.read();
      return Object.keys(value).length || isRequired ? value : undefined;
    } };
  } else {
    const isList = type === "array" && ["string", "number", "integer"].includes(typeOf(resolved(schema.items, root)));
    const example = isList ? "JSON, such as [\"a\", \"b\"]" : "JSON";
    input = el("textarea", { ...common, rows: 2, class: "json", placeholder: example, spellcheck: false });
    input.value = start === undefined ? "" : JSON.stringify(start);
    read = () => {
      input.setCustomValidity("");
      if (input.value.trim() === "") return undefined;
      try {
        return JSON.parse(input.value);
      } catch (error) {
        input.setCustomValidity(`no JSON: ${error.message}`);
        input.reportValidity();
        throw error;
      }
    };
  }
  input.addEventListener("input", () => input.setCustomValidity(""));
  const isCheck = input.type === "checkbox";
  const element = el("div", { class: isCheck ? "field check" : "field" }, isCheck ? [input, title] : [title, input], hint);
  return { element, read };
}

function fields(schema, root, depth) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const names = Object.keys(schema.properties ?? {});
  names.sort((a, b) => required.has(b) - required.has(a));
  const all = names.map((name) => [name, field(name, schema.properties[name], root, required.has(name), depth)]);
  return {
    element: el("div", { class: "fields" }, all.map(([, one]) => one.element)),
    read: () => Object.fromEntries(all.map(([name, one]) => [name, one.read()]).filter(([, value]) => value !== undefined)),
  };
}

/** Return a form for the arguments of a tool: its element, and `read`, which may throw. */
export function makeForm(schema) {
  const root = schema && typeof schema === "object" ? schema : {};
  const top = resolved(root, root);
  const hasFields = Object.keys(top.properties ?? {}).length > 0;
  const group = fields(top, root, 0);
  const asJson = el("textarea", { class: "json", rows: 5, spellcheck: false, "aria-label": "Arguments as JSON" });
  const toggle = el("input", { type: "checkbox" });
  const none = el("p", { class: "hint" }, "It takes no arguments.");
  const takesMore = !schema || top.additionalProperties !== false;
  const body = el("div", null, hasFields ? group.element : none);
  toggle.addEventListener("change", () => {
    if (toggle.checked) {
      let value = {};
      try { value = group.read(); } catch { /* the field says so itself */ }
      asJson.value = JSON.stringify(value, null, 2);
    }
    body.replaceChildren(toggle.checked ? asJson : hasFields ? group.element : none);
  });
  asJson.addEventListener("input", () => asJson.setCustomValidity(""));
  const element = el("div", { class: "form" }, body,
    (hasFields || takesMore) && el("label", { class: "switch" }, toggle, "as JSON"));
  const read = () => {
    if (!toggle.checked) return group.read();
    try {
      return asJson.value.trim() === "" ? {} : JSON.parse(asJson.value);
    } catch (error) {
      asJson.setCustomValidity(`no JSON: ${error.message}`);
      asJson.reportValidity();
      throw error;
    }
  };
  return { element, read };
}
