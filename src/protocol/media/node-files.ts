/** The files of recordings that a media node on another machine has written, until somebody comes for them. */
export type NodeFile = { recordingId: string; fileName: string };

export type NodeFiles = {
  /** From a byte on; `size` is of the whole. `busy`: its recording still runs there. Null: the node has no such file. */
  read(
    file: NodeFile,
    from: number,
    signal: AbortSignal,
  ): Promise<{ body: ReadableStream<Uint8Array>; size: number } | "busy" | null>;
  /** Repeating it is no error. */
  remove(file: NodeFile): Promise<void>;
};
