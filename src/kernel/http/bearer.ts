const BEARER = /^Bearer [\x21-\x7e]+$/i;

/** The credential in the header `Authorization: Bearer`; null without a valid one. */
export function bearerOf({ headers }: Request): string | null {
  const header = headers.get("authorization");
  return header !== null && BEARER.test(header) ? header.slice("Bearer ".length) : null;
}
