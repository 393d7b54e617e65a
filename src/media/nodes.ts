import type { Timers } from "../kernel/timers.ts";
import { withDeadline } from "./deadline.ts";
import type { MediaEvent, MediaNode } from "./node.ts";

type Listener = (serverName: string, event: MediaEvent) => void;

/** The media nodes that this process can talk to, by their names in the fleet. */
export type MediaNodes = {
  find(serverName: string): MediaNode | null;
  /** Events of every node, also of those added later. */
  onEvent(listener: Listener): void;
  add(serverName: string, node: MediaNode): void;
};

export function createMediaNodes(timers: Timers): MediaNodes {
  const nodes = new Map<string, MediaNode>();
  const listeners: Listener[] = [];
  return {
    find: (serverName) => nodes.get(serverName) ?? null,
    onEvent: (listener) => void listeners.push(listener),
    add(serverName, node) {
      nodes.set(serverName, withDeadline(node, timers));
      node.onEvent((event) => {
        for (const listener of listeners) listener(serverName, event);
      });
    },
  };
}
