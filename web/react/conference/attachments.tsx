/** @jsxImportSource react */
import { useEffect, useRef, useState } from "react";
import { type Conversation, type LocalMessage, StoaError } from "../../sdk/index.ts";
import { openWhenKnown } from "./open-when-known.ts";

/** What went wrong, and how to try it again where that can help. */
export type Failure = { text: string; retry?: () => void };
type Upload = { filename: string; fraction: number; cancel: () => void };

/** Uploads files one after the other and sends each as a message; leaving the chat cancels them. */
export function useUploads(conversation: Conversation | null, onFailure: (failure: Failure | null) => void) {
  const [upload, setUpload] = useState<Upload | null>(null);
  const queue = useRef<Promise<void>>(Promise.resolve());
  const gone = useRef(new AbortController());
  useEffect(() => {
    const controller = new AbortController();
    gone.current = controller;
    return () => controller.abort();
  }, []);

  const sendOne = async (file: File) => {
    const controller = new AbortController();
    const signal = AbortSignal.any([controller.signal, gone.current.signal]);
    const show = (fraction: number) => setUpload({ filename: file.name, fraction, cancel: () => controller.abort() });
    show(0);
    try {
      await conversation?.sendFile(file, { signal, onProgress: show });
    } catch (error) {
      // The code for uploads loads on demand; without a connection, the browser's error names that file instead of the cause.
      const reason = error instanceof StoaError ? error.message : "The upload was interrupted.";
      if (!signal.aborted) onFailure({ text: `${file.name}: ${reason}`, retry: () => send([file]) });
    } finally {
      setUpload(null);
    }
  };
  const send = (files: Iterable<File>) => {
    onFailure(null);
    for (const file of files) queue.current = queue.current.then(() => sendOne(file));
  };
  return { upload, send };
}

export function UploadProgress({ upload: { filename, fraction, cancel } }: { upload: Upload }) {
  return (
    <p className="stoa-upload" role="status">
      <span>{filename}</span>
      <progress value={fraction} aria-label={`Uploading ${filename}`} />
      <button className="stoa-link" type="button" onClick={cancel}>
        Cancel
      </button>
    </p>
  );
}

type AttachmentProps = {
  attachment: NonNullable<LocalMessage["attachment"]>;
  conversation: Conversation | null;
  onFailure: (failure: Failure) => void;
};

/** Download addresses are signed and expire, so each one is requested when it is needed. */
export function AttachmentLink({ attachment: { id, filename, size }, conversation, onFailure }: AttachmentProps) {
  const download = () => {
    if (!conversation) return;
    openWhenKnown(conversation.downloadUrl(id)).catch((error: Error) => onFailure({ text: error.message }));
  };
  return (
    <button className="stoa-link" type="button" onClick={download}>
      {filename} ({sizeText(size)})
    </button>
  );
}

function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`;
}
