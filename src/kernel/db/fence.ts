/** Keeps a server of several from answering what it cannot know: another one may lead without its having heard. */
export type Fence = {
  isStale(): boolean;
  /** Resolves once it is not, or with false when that is not to be expected. */
  fresh(): Promise<boolean>;
};
