/** Where a processor finds the files that it loads on demand: the server of the room. */
export type ProcessorContext = { serverUrl: string };

/** Changes a local track before it is sent. `stoa/processors` has some; any object with these two methods is one. */
export type TrackProcessor = {
  /** Returns the processed track. It is called again, after `destroy`, when the device changes. */
  init(track: MediaStreamTrack, context: ProcessorContext): Promise<MediaStreamTrack>;
  /** Ends the processing. The track that was passed to `init` stays open. */
  destroy(): void;
};
