// Reads JSON schemas, of which `form.js` makes forms: references, unions and types.

/** Return the type of a schema besides null, or undefined if it has none or several. */
export function typeOf(schema) {
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [schema.type];
  if (types.length === 1 && types[0] !== undefined) return types[0];
  return schema.properties ? "object" : undefined;
}

/**
 * Return the schema to which a `$ref` into the same document refers. Replace an anyOf or oneOf of a
 * single schema, besides null, by that schema, and merge an allOf of objects.
 */
export function resolved(schema, root, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
    let found = root;
    for (const part of schema.$ref.slice(2).split("/")) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      found = found && Object.hasOwn(found, name) ? found[name] : undefined;
    }
    const { $ref, ...others } = schema;
    return { ...resolved(found, root, depth + 1), ...others };
  }
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...others } = schema;
    const parts = allOf.map((part) => resolved(part, root, depth + 1));
    const properties = Object.assign({}, ...parts.map((part) => part.properties ?? {}), others.properties ?? {});
    const required = [...parts.flatMap((part) => part.required ?? []), ...(others.required ?? [])];
    return { ...Object.assign({}, ...parts), ...others, ...(Object.keys(properties).length ? { properties, required } : {}) };
  }
  const some = choicesOf(schema);
  if (some?.length === 1) {
    const { anyOf, oneOf, ...others } = schema;
    return { ...resolved(some[0], root, depth + 1), ...others };
  }
  return schema;
}

/** Return the alternatives of a union, without null; undefined if it is not a union. */
export function choicesOf(schema) {
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return choices.filter((choice) => choice?.type !== "null");
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [];
  return types.length > 1 ? types.map((type) => ({ ...schema, type })) : undefined;
}

/** Return whether a value could be of this schema, by its type, its constants and required members. */
export function fits(schema, value, root) {
  const found = resolved(schema, root);
  if ("const" in found) return JSON.stringify(found.const) === JSON.stringify(value);
  if (Array.isArray(found.enum)) return found.enum.some((item) => JSON.stringify(item) === JSON.stringify(value));
  const type = typeOf(found);
  if (type === "object") {
    if (!value || typeof value !== "object" || Array.isArray(value)) return false;
    if ((found.required ?? []).some((name) => !(name in value))) return false;
    return Object.entries(found.properties ?? {}).every(([name, member]) => !(name in value) || !("const" in resolved(member, root)) || fits(member, value[name], root));
  }
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  return type === undefined || typeof value === type;
}
