/** Recorded files on a media node on another machine, over its HTTP server. */
import type { NodeFile, NodeFiles } from "../protocol/media/node-files.ts";
import { NODE_FILES_PATH, TERM_HEADER } from "./remote-protocol.ts";

type Options = { internalUrl: string; secret: string; term: number };

/** How long deleting a recording waits for a node that does not respond. */
const REMOVE_WITHIN_MS = 5_000;

export function remoteFiles({ internalUrl, secret, term }: Options): NodeFiles {
  const request = (method: string, { recordingId, fileName }: NodeFile, signal: AbortSignal, more: object = {}) => {
    const path = [recordingId, fileName].map(encodeURIComponent).join("/");
    return fetch(new URL(`${NODE_FILES_PATH}${path}`, internalUrl), {
      method,
      signal,
      // A node must not redirect requests, with the secret, to another server.
      redirect: "error",
      headers: { ...more, authorization: `Bearer ${secret}`, [TERM_HEADER]: String(term) },
    });
  };

  return {
    async read(file, from, signal) {
      const response = await request("GET", file, signal, { range: `bytes=${from}-` });
      const { status, body } = response;
      const range = response.headers.get("content-range") ?? "";
      if (status === 206 && body) {
        const [, start, size = 0] = (/^bytes (\d{1,15})-\d+\/(\d{1,15})$/.exec(range) ?? []).map(Number);
        if (start === from) return { body, size };
        await body.cancel();
        throw new Error("the media node answered with another range");
      }
      await body?.cancel();
      // The request began at the end of the file, so the whole file was already read.
      const size = Number(/^bytes \*\/(\d{1,15})$/.exec(range)?.[1]);
      if (status === 416) return { body: new Response("").body ?? new ReadableStream(), size };
      if (status === 423) return "busy";
      if (status === 404) return null;
      throw new Error(`the media node answered ${status}`);
    },

    async remove(file) {
      const response = await request("DELETE", file, AbortSignal.timeout(REMOVE_WITHIN_MS));
      await response.body?.cancel();
      if (!response.ok) throw new Error(`the media node answered ${response.status}`);
    },
  };
}
