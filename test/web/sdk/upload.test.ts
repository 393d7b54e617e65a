import { expect, test } from "bun:test";
import { upload } from "../../../web/sdk/chat/upload.ts";
import type { Rest } from "../../../web/sdk/rest.ts";

/** The body of the request that creates the attachment; the upload stops there. */
async function declared(file: Blob): Promise<unknown> {
  let body: unknown;
  const rest = {
    call: async (_method: string, _path: string, sent: object) => {
      body = sent;
      throw new Error("stop here");
    },
  } as unknown as Rest;
  await expect(upload(rest, "conv_1", file, {})).rejects.toThrow("stop here");
  return body;
}

test.each([
  ["audio/webm;codecs=opus", "audio/webm"],
  ["text/plain; charset=utf-8", "text/plain"],
  ["image/png", "image/png"],
  ["", "application/octet-stream"],
])("[9] a file of type %p is declared as %p, which the server accepts", async (type, mimeType) => {
  expect(await declared(new Blob(["four"], { type }))).toEqual({ filename: "file", mimeType, size: 4 });
});
