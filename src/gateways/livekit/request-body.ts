/** The body of a request that is not read before its caller is known; `tooLarge` is thrown beyond the limit. */
export async function readBody(request: Request, maxBytes: number, tooLarge: () => Error): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.length;
    if (size > maxBytes) throw tooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts);
}
