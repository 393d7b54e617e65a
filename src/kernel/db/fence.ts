/** Keeps a server of a cluster from serving stale data: another one may lead without its knowledge. */
export type Fence = {
  isStale(): boolean;
  /** Resolves with true once it is not stale any more, with false when that is not expected. */
  fresh(): Promise<boolean>;
};
