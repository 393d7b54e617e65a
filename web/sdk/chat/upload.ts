import type { Attachment } from "../../../src/protocol/chat-records.ts";
import { StoaError } from "../errors.ts";
import type { Rest } from "../rest.ts";

/** Options for uploads. */
export type UploadOptions = {
  /** Called with the uploaded fraction, from 0 to 1. */
  onProgress?: (fraction: number) => void;
  /** Cancels the upload. */
  signal?: AbortSignal;
  /** The attachment's file name; that of the file by default. */
  filename?: string;
  /** Metadata to store with the attachment. */
  metadata?: Record<string, unknown>;
};

type Ticket = Attachment & { uploadUrl: string; uploadMethod: string; uploadHeaders: Record<string, string> };

/** Requests a signed upload URL, uploads the file and completes the attachment. */
export async function upload(
  rest: Rest,
  conversationId: string,
  file: Blob,
  options: UploadOptions,
): Promise<Attachment> {
  const { signal, metadata } = options;
  const ticket = await rest.call<Ticket>(
    "POST",
    `/v1/chat/conversations/${encodeURIComponent(conversationId)}/attachments`,
    {
      filename: options.filename ?? (file instanceof File ? file.name : "file"),
      mimeType: mimeTypeOf(file),
      size: file.size,
      ...(metadata === undefined ? {} : { metadata }),
    },
    { signal },
  );
  if (typeof XMLHttpRequest === "undefined") await uploadWithFetch(ticket, file, options);
  else await uploadWithProgress(ticket, file, options);
  return rest.call<Attachment>("POST", `/v1/chat/attachments/${ticket.id}/complete`, undefined, { signal });
}

/** Strips parameters: a MediaRecorder's type is `audio/webm;codecs=opus`, but the server accepts only `type/subtype`. */
function mimeTypeOf({ type }: Blob): string {
  return type.split(";")[0]?.trim() || "application/octet-stream";
}

/** Uses XMLHttpRequest because `fetch` does not report upload progress. */
function uploadWithProgress(ticket: Ticket, file: Blob, { onProgress, signal }: UploadOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    if (signal?.aborted) return reject(cancelled());
    const abort = () => request.abort();
    signal?.addEventListener("abort", abort);
    request.addEventListener("loadend", () => signal?.removeEventListener("abort", abort));
    request.upload.addEventListener("progress", ({ loaded, total }) => onProgress?.(total === 0 ? 1 : loaded / total));
    request.addEventListener("load", () => (request.status < 300 ? resolve() : reject(refused(request.status))));
    request.addEventListener("error", () => reject(lost()));
    request.addEventListener("abort", () => reject(cancelled()));
    request.open(ticket.uploadMethod, ticket.uploadUrl);
    for (const [name, value] of Object.entries(ticket.uploadHeaders)) request.setRequestHeader(name, value);
    request.send(file);
  });
}

/** Runtimes without XMLHttpRequest upload without progress. */
async function uploadWithFetch(ticket: Ticket, file: Blob, { onProgress, signal }: UploadOptions): Promise<void> {
  const { uploadUrl, uploadMethod: method, uploadHeaders: headers } = ticket;
  const response = await fetch(uploadUrl, { method, headers, body: file, signal }).catch(() => {
    throw signal?.aborted ? cancelled() : lost();
  });
  if (!response.ok) throw refused(response.status);
  onProgress?.(1);
}

const cancelled = () => new StoaError("CANCELLED", "cancelled", "The upload was cancelled.");
const lost = () => new StoaError("UPLOAD_LOST", "network", "The upload was interrupted.");
const refused = (status: number) => new StoaError("UPLOAD_REFUSED", "server", `The upload was refused (${status}).`);
