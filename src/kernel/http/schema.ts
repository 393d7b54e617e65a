import { FormatRegistry, type TInteger, Type } from "@sinclair/typebox";
import { t } from "elysia";
import { ENVIRONMENTS } from "../../protocol/enums.ts";
import { IDENTITY_PATTERN, NAME_PATTERN } from "../../protocol/ids.ts";

export const Timestamp = t.String({ format: "date-time", description: "ISO 8601, UTC, milliseconds" });
export const NullableTimestamp = t.Union([Timestamp, t.Null()]);
export const Environment = oneOf(ENVIRONMENTS);
export const Name = t.String({
  pattern: NAME_PATTERN,
  description: "1-128 letters, digits, `-`, `_`, `.`",
  error: "must be 1-128 letters, digits, '-', '_' or '.', and neither '.' nor '..'",
});
export const Identity = t.String({
  pattern: IDENTITY_PATTERN,
  description: "1-128 characters of A-Z a-z 0-9 . _ @ : + = | -",
  error: "must be 1-128 characters of A-Z a-z 0-9 . _ @ : + = | -, and neither '.' nor '..'",
});
export const EnvironmentQuery = { environment: t.Optional(Environment) };

export function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  const schema = t.UnionEnum(values as unknown as [T[number], ...T[number][]], {
    error: `must be one of ${values.join(", ")}`,
  });
  // The framework makes the first value the default: an omitted field would be filled in, and a PATCH would change it.
  delete (schema as { default?: unknown }).default;
  return schema;
}

export function nullable<T extends Parameters<typeof t.Union>[0][number]>(schema: T) {
  return t.Union([schema, t.Null()]);
}

/** Free text, with its length in code points; an unpaired surrogate is invalid. */
export function textOf(min: number, max: number) {
  return t.String({
    pattern: `^(?:[\\uD800-\\uDBFF][\\uDC00-\\uDFFF]|[^\\uD800-\\uDFFF]){${min},${max}}$`,
    codePoints: [min, max],
    description: `${min}-${max} characters`,
    error: `must be ${min}-${max} characters`,
  });
}

type Bounds = { min?: number; max?: number; description?: string };

/** A whole number in a JSON body. The framework's own schema also accepts "5". */
export function wholeNumber({ min, max, description }: Bounds = {}) {
  return Type.Integer({ minimum: min, maximum: max, description, error: describeWholeNumber({ min, max }) });
}

export function anyNumber({ min, max, description }: Bounds = {}) {
  return Type.Number({ minimum: min, maximum: max, description });
}

/**
 * A whole number in a query: digits only, whereas the framework's own schema accepts `0x10`, `1e2` and ` 5`. With more than
 * 15 digits a number would lose precision.
 */
export function queryInteger({ min = 0, max = Number.MAX_SAFE_INTEGER, description }: Bounds) {
  const format = `whole number ${min} ${max}`;
  FormatRegistry.Set(format, (text) => /^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max);
  const written = t.String({ format, wholeNumber: [min, max], description, error: describeWholeNumber({ min, max }) });
  const schema = t.Transform(written).Decode(Number).Encode(String);
  // For handlers and clients the value is a number.
  return schema as unknown as TInteger;
}

function describeWholeNumber({ min, max }: Bounds): string {
  if (min === undefined) return "must be a whole number";
  const open = max === undefined || max === Number.MAX_SAFE_INTEGER;
  return open ? `must be a whole number of at least ${min}` : `must be a whole number from ${min} to ${max}`;
}

export const QueryBoolean = t.BooleanString({ error: "must be true or false" });
