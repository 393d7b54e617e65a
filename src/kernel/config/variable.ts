/** A raw value (a string, or a value from TOML) in its type. */
type Reading<Value> = { ok: true; value: Value } | { ok: false; expected: string };

export type Variable<Value = unknown> = {
  readonly type: "integer" | "boolean" | "text" | "path" | "list" | "choice";
  readonly fallback: Value;
  /** The documented default if it is computed at startup. */
  readonly fallbackText?: string;
  /** The accepted values in words, for error messages and the documentation. */
  readonly range: string;
  readonly description: string;
  /** A secret is never printed, logged or documented with its value. */
  readonly secret?: boolean;
  read(raw: unknown): Reading<Value>;
};

type Check = { expected: string; accepts: (value: string) => boolean };

const trimmed = (raw: unknown): string | undefined => (typeof raw === "string" ? raw.trim() : undefined);

export function integer(
  fallback: number,
  bounds: { min: number; max: number; fallbackText?: string },
  description: string,
): Variable<number> {
  const range = `an integer from ${bounds.min} to ${bounds.max}`;
  return {
    type: "integer",
    fallback,
    fallbackText: bounds.fallbackText,
    range,
    description,
    read(raw) {
      const digits = trimmed(raw);
      const value = digits !== undefined && /^-?\d{1,15}$/.test(digits) ? Number(digits) : raw;
      if (typeof value !== "number" || !Number.isInteger(value)) return { ok: false, expected: range };
      return value >= bounds.min && value <= bounds.max ? { ok: true, value } : { ok: false, expected: range };
    },
  };
}

const TRUE = ["true", "1", "yes", "on"];
const FALSE = ["false", "0", "no", "off"];

export function boolean(fallback: boolean, description: string): Variable<boolean> {
  const range = "true or false";
  return {
    type: "boolean",
    fallback,
    range,
    description,
    read(raw) {
      if (typeof raw === "boolean") return { ok: true, value: raw };
      const word = String(raw).trim().toLowerCase();
      if (TRUE.includes(word)) return { ok: true, value: true };
      return FALSE.includes(word) ? { ok: true, value: false } : { ok: false, expected: range };
    },
  };
}

export function choice<const Value extends string>(
  fallback: NoInfer<Value>,
  values: readonly Value[],
  description: string,
): Variable<Value> {
  const range = `one of ${values.join(", ")}`;
  return {
    type: "choice",
    fallback,
    range,
    description,
    read(raw) {
      const value = values.find((candidate) => candidate === trimmed(raw));
      return value === undefined ? { ok: false, expected: range } : { ok: true, value };
    },
  };
}

export function text(fallback: string, check: Check, description: string): Variable<string> {
  return {
    type: "text",
    fallback,
    range: check.expected,
    description,
    read(raw) {
      const value = trimmed(raw);
      if (value === undefined || !check.accepts(value)) return { ok: false, expected: check.expected };
      return { ok: true, value };
    },
  };
}

/** An optional text; the empty string counts as absent. */
export function optional(check: Check, description: string): Variable<string | undefined> {
  return {
    ...text("", check, description),
    fallback: undefined,
    read(raw) {
      const value = trimmed(raw);
      if (value === "") return { ok: true, value: undefined };
      if (value === undefined || !check.accepts(value)) return { ok: false, expected: check.expected };
      return { ok: true, value };
    },
  };
}

const pathCheck: Check = { expected: "a path", accepts: (value) => value.length > 0 && !value.includes("\0") };

/** A file or directory that always has a value. Every path is absolute once the configuration is loaded. */
export function path(fallback: string, description: string): Variable<string> {
  return { ...text(fallback, pathCheck, description), type: "path" };
}

export function optionalPath(description: string): Variable<string | undefined> {
  return { ...optional(pathCheck, description), type: "path" };
}

export function secret(check: Check, description: string): Variable<string | undefined> {
  return { ...optional(check, description), secret: true };
}

/** Comma-separated in flags and environment, an array in TOML. */
export function list(fallback: readonly string[], check: Check, description: string): Variable<readonly string[]> {
  const range = `a list of ${check.expected}, separated by commas`;
  return {
    type: "list",
    fallback,
    range,
    description,
    read(raw) {
      const parts = Array.isArray(raw)
        ? raw.map(trimmed)
        : trimmed(raw)
            ?.split(",")
            .map((part) => part.trim());
      if (parts === undefined) return { ok: false, expected: range };
      const value: string[] = [];
      for (const part of parts) {
        if (part === "") continue;
        if (part === undefined || !check.accepts(part)) return { ok: false, expected: range };
        value.push(part);
      }
      return { ok: true, value };
    },
  };
}
