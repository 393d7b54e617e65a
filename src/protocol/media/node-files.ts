/** A recorded file on a remote media node, until the control plane has downloaded it. */
export type NodeFile = { recordingId: string; fileName: string };

export type NodeFiles = {
  /**
   * Reads from an offset; `size` is the size of the whole file. `busy`: the file is still being recorded. Null: the
   * file does not exist.
   */
  read(
    file: NodeFile,
    from: number,
    signal: AbortSignal,
  ): Promise<{ body: ReadableStream<Uint8Array>; size: number } | "busy" | null>;
  /** Removing a missing file is not an error. */
  remove(file: NodeFile): Promise<void>;
};
