import { Type } from "@sinclair/typebox";

/** A union of string literals with its exact static type, which `Type.Union` of an array would lose. */
export const literals = <const T extends readonly string[]>(values: T) =>
  Type.Unsafe<T[number]>(Type.Union(values.map((value) => Type.Literal(value))));
