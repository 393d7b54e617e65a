import { FormatRegistry, type TInteger, Type } from "@sinclair/typebox";
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

type Bounds = { min?: number; max?: number; description?: string };

/** A whole number of a JSON body. The framework's own also takes "5" for 5. */
export function wholeNumber({ min, max, description }: Bounds = {}) {
  return Type.Integer({ minimum: min, maximum: max, description, error: wholeNumberWords({ min, max }) });
}

/** The same, with a fraction or without. */
export function anyNumber({ min, max, description }: Bounds = {}) {
  return Type.Number({ minimum: min, maximum: max, description });
}

/**
 * A whole number of a query: digits and nothing else, where the framework's own takes `0x10`, `1e2` and ` 5`. Longer than
 * 15 digits a number is no longer the one that was written.
 */
export function queryInteger({ min = 0, max = Number.MAX_SAFE_INTEGER, description }: Bounds) {
  const format = `whole number ${min} ${max}`;
  FormatRegistry.Set(format, (text) => /^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max);
  const written = t.String({ format, wholeNumber: [min, max], description, error: wholeNumberWords({ min, max }) });
  const schema = t.Transform(written).Decode(Number).Encode(String);
  // To handlers and clients it is the number that it stands for.
  return schema as unknown as TInteger;
}

function wholeNumberWords({ min, max }: Bounds): string {
  if (min === undefined) return "must be a whole number";
  const open = max === undefined || max === Number.MAX_SAFE_INTEGER;
  return open ? `must be a whole number of at least ${min}` : `must be a whole number from ${min} to ${max}`;
}

/** `true` or `false` of a query. */
export const QueryBoolean = t.BooleanString({ error: "must be true or false" });
