type Json = Record<string, unknown>;

/** Replaces keywords that only this server's validator knows with standard JSON Schema. */
export function publicSchema(value: unknown, isNameMap = false): unknown {
  if (Array.isArray(value)) return value.map((item) => publicSchema(item));
  if (value === null || typeof value !== "object") return value;
  const written = isNameMap ? value : withoutFrameworkChanges(value);
  const known = Object.entries(written).flatMap(([key, item]): [string, unknown][] => {
    if (isNameMap) return [[key, publicSchema(item)]];
    if (key === "refusesUnknownFields") return [["additionalProperties", false]];
    if (key === "codePoints") return lengthsOf(item as [number, number]);
    if ((key === "error" && typeof item === "string") || (key === "pattern" && "codePoints" in written)) return [];
    return [[key, publicSchema(item, key === "properties")]];
  });
  return Object.fromEntries(known.filter(([, item]) => item !== undefined));
}

/** Undoes changes of the framework: text in place of a number, and a nullable enum without null in its list. */
function withoutFrameworkChanges(schema: object): object {
  const { anyOf, type, enum: list, wholeNumber, format: _, ...rest } = schema as Json;
  if (Array.isArray(wholeNumber)) {
    const [minimum, maximum] = wholeNumber as [number, number];
    return { ...rest, type: "integer", minimum, ...(maximum < Number.MAX_SAFE_INTEGER && { maximum }) };
  }
  const [first, written] = Array.isArray(anyOf) ? (anyOf as Json[]) : [];
  if (anyOf !== undefined && first?.type === "string" && SUBSTITUTES.has(String(first.format))) {
    return { ...schema, anyOf: undefined, ...written };
  }
  const missesNull = Array.isArray(list) && Array.isArray(type) && type.includes("null") && !list.includes(null);
  return missesNull ? { ...schema, enum: [...list, null] } : schema;
}

const SUBSTITUTES = new Set(["integer", "numeric", "boolean"]);

/** JSON Schema counts code points; the validator counts UTF-16 units, so it has a pattern instead. */
function lengthsOf([min, max]: [number, number]): [string, unknown][] {
  return min === 0
    ? [["maxLength", max]]
    : [
        ["minLength", min],
        ["maxLength", max],
      ];
}
