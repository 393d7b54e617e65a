type Json = Record<string, unknown>;

/** Keywords that only the server's own validator reads give way to those that everyone knows. */
export function publicSchema(value: unknown, isNameMap = false): unknown {
  if (Array.isArray(value)) return value.map((item) => publicSchema(item));
  if (value === null || typeof value !== "object") return value;
  const written = isNameMap ? value : asWritten(value);
  const known = Object.entries(written).flatMap(([key, item]): [string, unknown][] => {
    if (isNameMap) return [[key, publicSchema(item)]];
    if (key === "codePoints") return lengthsOf(item as [number, number]);
    if ((key === "error" && typeof item === "string") || (key === "pattern" && "codePoints" in written)) return [];
    return [[key, publicSchema(item, key === "properties")]];
  });
  return Object.fromEntries(known.filter(([, item]) => item !== undefined));
}

/** Undoes what the framework adds for itself: text that stands for a number, and a null that its list does not hold. */
function asWritten(schema: object): object {
  const { anyOf, type, enum: list, wholeNumber, format: _, ...rest } = schema as Json;
  if (Array.isArray(wholeNumber)) {
    const [minimum, maximum] = wholeNumber as [number, number];
    return { ...rest, type: "integer", minimum, ...(maximum < Number.MAX_SAFE_INTEGER && { maximum }) };
  }
  const [first, written] = Array.isArray(anyOf) ? (anyOf as Json[]) : [];
  if (anyOf !== undefined && first?.type === "string" && STAND_INS.has(String(first.format))) {
    return { ...schema, anyOf: undefined, ...written };
  }
  const missesNull = Array.isArray(list) && Array.isArray(type) && type.includes("null") && !list.includes(null);
  return missesNull ? { ...schema, enum: [...list, null] } : schema;
}

const STAND_INS = new Set(["integer", "numeric", "boolean"]);

/** JSON Schema counts characters as we do; the validator, which counts UTF-16 units, has a pattern instead. */
function lengthsOf([min, max]: [number, number]): [string, unknown][] {
  return min === 0
    ? [["maxLength", max]]
    : [
        ["minLength", min],
        ["maxLength", max],
      ];
}
