import { Type } from "@sinclair/typebox";

/** A union of strings whose type survives where a union of unknown length would not. */
export const literals = <const T extends readonly string[]>(values: T) =>
  Type.Unsafe<T[number]>(Type.Union(values.map((value) => Type.Literal(value))));
