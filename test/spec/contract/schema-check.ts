import type { JsonSchema } from "../../harness/operations.ts";

const FORMATS: Record<string, (text: string) => boolean> = {
  "date-time": (text) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text) && !Number.isNaN(Date.parse(text)),
};

/**
 * Checks a value against its published schema, independently of the server's own validator: the reference must be correct
 * for other tools.
 */
export function problemsOf(value: unknown, schema: JsonSchema, at = "$"): string[] {
  return [
    ...(schema.allOf ?? []).flatMap((part) => problemsOf(value, part, at)),
    ...(schema.anyOf === undefined || schema.anyOf.some((part) => problemsOf(value, part, at).length === 0)
      ? []
      : [`${at}: ${show(value)} is none of its alternatives`]),
    ...typeProblems(value, schema, at),
    ...("const" in schema && value !== schema.const ? [`${at}: not ${show(schema.const)}`] : []),
    ...(schema.enum && !schema.enum.includes(value) ? [`${at}: ${show(value)} is not in the list`] : []),
    ...(typeof value === "string" ? textProblems(value, schema, at) : []),
    ...(typeof value === "number" ? numberProblems(value, schema, at) : []),
    ...(Array.isArray(value) ? arrayProblems(value, schema, at) : []),
    ...(isObject(value) ? objectProblems(value, schema, at) : []),
  ];
}

function typeProblems(value: unknown, { type }: JsonSchema, at: string): string[] {
  if (type === undefined) return [];
  const fits = [type].flat().some((one) => {
    if (one === "integer") return Number.isInteger(value);
    if (one === "null") return value === null;
    if (one === "array") return Array.isArray(value);
    if (one === "object") return isObject(value);
    return typeof value === one;
  });
  return fits ? [] : [`${at}: ${show(value)} is no ${type}`];
}

function textProblems(text: string, { minLength = 0, maxLength, pattern, format }: JsonSchema, at: string): string[] {
  const length = [...text].length;
  if (length < minLength || length > (maxLength ?? length)) return [`${at}: ${length} characters`];
  if (pattern !== undefined && !new RegExp(pattern).test(text)) return [`${at}: ${show(text)} against ${pattern}`];
  return FORMATS[format ?? ""]?.(text) === false ? [`${at}: ${show(text)} is no ${format}`] : [];
}

function numberProblems(number: number, { minimum = -Infinity, maximum = Infinity }: JsonSchema, at: string): string[] {
  return number < minimum || number > maximum ? [`${at}: ${number} is out of range`] : [];
}

function arrayProblems(array: unknown[], { items, minItems = 0, maxItems }: JsonSchema, at: string): string[] {
  if (array.length < minItems || array.length > (maxItems ?? array.length)) return [`${at}: ${array.length} items`];
  return items ? array.flatMap((item, index) => problemsOf(item, items, `${at}[${index}]`)) : [];
}

function objectProblems(object: Record<string, unknown>, schema: JsonSchema, at: string): string[] {
  const missing = (schema.required ?? []).filter((name) => !(name in object));
  const known = Object.entries(schema.properties ?? {}).filter(([name]) => name in object);
  return [
    ...missing.map((name) => `${at}.${name}: missing`),
    ...known.flatMap(([name, property]) => problemsOf(object[name], property, `${at}.${name}`)),
  ];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const show = (value: unknown) => JSON.stringify(value)?.slice(0, 80);
