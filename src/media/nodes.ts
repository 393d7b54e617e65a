import type { MediaEvent, MediaNode } from "./node.ts";

/** The media nodes that this process can talk to, by their names in the fleet. */
export type MediaNodes = {
  find(serverName: string): MediaNode | null;
  onEvent(listener: (serverName: string, event: MediaEvent) => void): () => void;
};

/** The node inside this process, and no other. */
export function localNodes(serverName: string, node: MediaNode): MediaNodes {
  return {
    find: (name) => (name === serverName ? node : null),
    onEvent: (listener) => node.onEvent((event) => listener(serverName, event)),
  };
}

/** For commands that open the data without serving it. */
export function noNodes(): MediaNodes {
  return { find: () => null, onEvent: () => () => {} };
}
