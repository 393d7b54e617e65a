export type OpenFiles = ReturnType<typeof createOpenFiles>;

/** The files that are being written, and whose they are. */
export function createOpenFiles() {
  const files = new Map<string, { recordingId: string; identity: string }>();
  let waiting: (() => void)[] = [];

  function removeWhere(isOver: (fileId: string, recordingId: string) => boolean): void {
    for (const [fileId, { recordingId }] of files) if (isOver(fileId, recordingId)) files.delete(fileId);
    const told = waiting;
    waiting = [];
    for (const tell of told) tell();
  }

  return {
    begun: (recordingId: string, fileId: string, identity: string): void =>
      void files.set(fileId, { recordingId, identity }),
    ended: (fileId: string): void => removeWhere((id) => id === fileId),
    /** Of a recording that has ended, or whose node is lost: nobody writes its files any more. */
    allEnded: (recordingId: string): void => removeWhere((_, id) => id === recordingId),

    /** Resolves when none of that person is left. */
    async settled(recordingId: string, identity: string): Promise<void> {
      const isTheirs = (file: { recordingId: string; identity: string }) =>
        file.recordingId === recordingId && file.identity === identity;
      while ([...files.values()].some(isTheirs)) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}
