/** A file of a recording on a remote media node, until the server has fetched it. */
export type NodeFile = { recordingId: string; fileName: string };

export type NodeFiles = {
  /** Reads from an offset; `size` is that of the whole file. `busy`: still being recorded. Null: no such file. */
  read(
    file: NodeFile,
    from: number,
    signal: AbortSignal,
  ): Promise<{ body: ReadableStream<Uint8Array>; size: number } | "busy" | null>;
  /** Removing a missing file is not an error. */
  remove(file: NodeFile): Promise<void>;
};
