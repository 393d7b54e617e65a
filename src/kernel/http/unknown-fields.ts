import { ApiError, type FieldProblem, invalid } from "../../protocol/errors.ts";
import { nearest } from "../nearest-name.ts";

/** The fields of a JSON schema that decide which fields a body may have. */
type Schema = {
  properties?: Record<string, Schema>;
  /** The framework sets it to false for every object that does not set it. */
  additionalProperties?: unknown;
  refusesUnknownFields?: boolean;
  patternProperties?: unknown;
  items?: Schema;
  maxItems?: number;
  anyOf?: Schema[];
};

/** Options of an object schema that rejects all unknown fields. */
export const REFUSES_UNKNOWN_FIELDS = { refusesUnknownFields: true };

export const IGNORED_FIELDS_HEADER = "stoa-ignored-fields";

/** A client can send a mebibyte of unknown names; the first ones are enough to find the mistake. */
const MAX_LISTED = 64;
/** Proxies and clients refuse a response whose headers have more than 4 to 16 KB. */
const MAX_HEADER = 2_048;
const MAX_ITEMS = 1_000;
/** No field has a longer name, and one edit turns a shorter name into many other names. */
const [MIN_COMPARED, MAX_COMPARED] = [4, 64];
const MAX_EDITS = 2;
/** Two edits turn a name of fewer letters into many other names; one edit behind its first letter rarely does. */
const MIN_FOR_TWO_EDITS = 6;

type Found = { refused: FieldProblem[]; ignored: string[] };

/**
 * Finds the fields of a body that its schema does not have, which the framework would silently drop. A misspelt field
 * is rejected, and so is every unknown field of an object with `refusesUnknownFields`; the names of the others are
 * returned, as the value of the response header `stoa-ignored-fields`, or null.
 */
export function checkUnknownFields(body: unknown, schema: object | undefined): string | null {
  const found: Found = { refused: [], ignored: [] };
  collect(body, (schema ?? { properties: {} }) as Schema, "", found);
  const [first] = found.refused;
  if (first !== undefined) {
    throw new ApiError("SVC_VALIDATION_FAILED", `${first.field}: ${first.message}`, { details: found.refused });
  }
  return headerOf(found.ignored);
}

/** Checks the parameters of a query in the same way: with a misspelt filter, a list would return everything. */
export function checkUnknownParameters(given: URLSearchParams, properties: object): string | null {
  const fields = Object.fromEntries(given);
  const ignored: string[] = [];
  for (const name of Object.keys(fields).slice(0, MAX_LISTED)) {
    if (Object.hasOwn(properties, name)) continue;
    const meant = misspelt(name, properties, fields);
    if (meant !== null) throw invalid(name, `unknown; did you mean "${meant}"?`);
    ignored.push(name);
  }
  return headerOf(ignored);
}

/** The names that fit into the header; null for none. Names may contain unpaired surrogates, which have no encoding. */
function headerOf(names: readonly string[]): string | null {
  let header = "";
  for (const name of names) {
    const encoded = encodeURIComponent(name.slice(0, MAX_HEADER).toWellFormed());
    if (header.length + encoded.length > MAX_HEADER) continue;
    header += header === "" ? encoded : `, ${encoded}`;
  }
  return header === "" ? null : header;
}

function collect(value: unknown, schema: Schema, path: string, found: Found): void {
  if (typeof value !== "object" || value === null) return;
  const variants = (schema.anyOf ?? [schema]).filter((variant) => variant.properties ?? variant.items);
  const [only] = variants;
  // The validator decides which of several variants applies.
  if (only === undefined || variants.length > 1) return;
  if (Array.isArray(value)) {
    const { items } = only;
    if (items === undefined || !hasFields(items)) return;
    for (const [index, item] of value.slice(0, only.maxItems ?? MAX_ITEMS).entries()) {
      collect(item, items, `${path}${index}.`, found);
    }
    return;
  }
  const { properties } = only;
  if (properties === undefined) return;
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    if (Object.hasOwn(properties, name)) collect(fields[name], properties[name] ?? {}, `${path}${name}.`, found);
    else if (takesAnyField(only)) continue;
    else if (found.refused.length + found.ignored.length >= MAX_LISTED) return;
    else judge(name, only, fields, path, found);
  }
}

function judge(name: string, schema: Schema, fields: object, path: string, found: Found): void {
  const { properties = {}, refusesUnknownFields } = schema;
  const field = path + name;
  const meant = misspelt(name, properties, fields);
  if (meant !== null) found.refused.push({ field, message: `unknown; did you mean "${meant}"?` });
  else if (!refusesUnknownFields) found.ignored.push(field);
  else {
    const names = Object.keys(properties).join(", ");
    found.refused.push({ field, message: path === "" ? "unknown field" : `unknown; the names are ${names}` });
  }
}

function hasFields({ properties, items, anyOf }: Schema): boolean {
  return properties !== undefined || items !== undefined || (anyOf?.some(hasFields) ?? false);
}

function takesAnyField({ additionalProperties, patternProperties }: Schema): boolean {
  return patternProperties !== undefined || (additionalProperties !== undefined && additionalProperties !== false);
}

/** The field that a name probably stands for: a similar one that the body does not have. */
function misspelt(name: string, properties: object, fields: object): string | null {
  if (name.length < MIN_COMPARED || name.length > MAX_COMPARED) return null;
  const absent = Object.keys(properties).filter(
    (known) => !Object.hasOwn(fields, known) && Math.abs(known.length - name.length) <= MAX_EDITS,
  );
  const best = nearest(name, absent);
  if (best === undefined || best.distance > MAX_EDITS) return null;
  if (name.length >= MIN_FOR_TWO_EDITS) return best.name;
  return best.distance === 1 && best.name[0] === name[0] ? best.name : null;
}
