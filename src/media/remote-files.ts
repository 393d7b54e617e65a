/** The files that a media node on another machine has recorded, over its own little server. */
import type { NodeFile, NodeFiles } from "../protocol/media/node-files.ts";
import { NODE_FILES_PATH, TERM_HEADER } from "./remote-protocol.ts";

type Options = { internalUrl: string; secret: string; term: number };

export function remoteFiles({ internalUrl, secret, term }: Options): NodeFiles {
  const ask = (method: string, { recordingId, fileName }: NodeFile, more: RequestInit = {}) =>
    fetch(
      new URL(`${NODE_FILES_PATH}${encodeURIComponent(recordingId)}/${encodeURIComponent(fileName)}`, internalUrl),
      {
        ...more,
        method,
        // A node answers for itself: where it would send us is no place that it was trusted with.
        redirect: "error",
        headers: { ...more.headers, authorization: `Bearer ${secret}`, [TERM_HEADER]: String(term) },
      },
    );

  return {
    async read(file, from, signal) {
      const response = await ask("GET", file, { headers: { range: `bytes=${from}-` }, signal });
      if (response.status === 206 && response.body) {
        const size = Number(/\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1]);
        if (!Number.isSafeInteger(size)) {
          await response.body.cancel();
          throw new Error("the media node does not say how large the file is");
        }
        return { body: response.body, size };
      }
      await response.body?.cancel();
      // All of it came before.
      const size = Number(/^bytes \*\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1]);
      if (response.status === 416) return { body: new Response("").body ?? new ReadableStream(), size };
      if (response.status === 423) return "busy";
      if (response.status === 404) return null;
      throw new Error(`the media node answered ${response.status}`);
    },

    async remove(file) {
      const response = await ask("DELETE", file);
      if (!response.ok) throw new Error(`the media node answered ${response.status}`);
    },
  };
}
