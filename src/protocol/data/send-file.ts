import type { DataStreams } from "./data-streams.ts";
import type { SendFileOptions } from "./room-data.ts";

const FILE_PIECE_BYTES = 15_000 * 16;

/** Sends a file as a stream of bytes; a module of its own, which pages load only when they send one. */
export async function sendFile(
  streams: DataStreams,
  file: Blob,
  { onProgress, signal, ...options }: SendFileOptions,
  cancelled: () => Error,
): Promise<void> {
  const { name = (file as Partial<File>).name, mimeType = file.type || undefined } = options;
  if (signal?.aborted) throw cancelled();
  const writer = streams.write("bytes", { ...options, name, mimeType, size: file.size });
  const abort = () => void writer.abort().catch(() => {});
  signal?.addEventListener("abort", abort);
  try {
    for (let at = 0; at < file.size; at += FILE_PIECE_BYTES) {
      const piece = await file.slice(at, at + FILE_PIECE_BYTES).arrayBuffer();
      await writer.write(new Uint8Array(piece));
      onProgress?.((at + piece.byteLength) / file.size);
    }
    await writer.close();
    if (file.size === 0) onProgress?.(1);
  } catch (error) {
    await writer.abort(signal?.aborted ? "cancelled" : "failed").catch(() => {});
    throw signal?.aborted ? cancelled() : error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}
