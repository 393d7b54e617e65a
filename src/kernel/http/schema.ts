import { t } from "elysia";
import { ENVIRONMENTS } from "../../protocol/enums.ts";
import { IDENTITY_PATTERN, NAME_PATTERN } from "../../protocol/ids.ts";

/** Schemas that several features share. */
export const Timestamp = t.String({ format: "date-time", description: "ISO 8601, UTC, milliseconds" });
export const NullableTimestamp = t.Union([Timestamp, t.Null()]);
export const Environment = oneOf(ENVIRONMENTS);
export const Name = t.String({
  pattern: NAME_PATTERN,
  description: "1-128 letters, digits, `-`, `_`, `.`",
  error: "must be 1-128 letters, digits, '-', '_' or '.'",
});
export const Identity = t.String({
  pattern: IDENTITY_PATTERN,
  description: "1-128 characters of A-Z a-z 0-9 . _ @ : + = | -",
  error: "must be 1-128 characters of A-Z a-z 0-9 . _ @ : + = | -",
});
export const EnvironmentQuery = { environment: t.Optional(Environment) };

export function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  const schema = t.UnionEnum(values as unknown as [T[number], ...T[number][]], {
    error: `must be one of ${values.join(", ")}`,
  });
  // The framework makes the first value the default: a field left out would be filled in, a PATCH would change it.
  delete (schema as { default?: unknown }).default;
  return schema;
}

export function nullable<T extends Parameters<typeof t.Union>[0][number]>(schema: T) {
  return t.Union([schema, t.Null()]);
}

/** Free text, counted in code points as people count characters; half of a surrogate pair is no text. */
export function textOf(min: number, max: number) {
  return t.String({
    pattern: `^(?:[\\uD800-\\uDBFF][\\uDC00-\\uDFFF]|[^\\uD800-\\uDFFF]){${min},${max}}$`,
    codePoints: [min, max],
    description: `${min}-${max} characters`,
    error: `must be ${min}-${max} characters`,
  });
}
