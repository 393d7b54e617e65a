import type { Timers } from "../kernel/time/timers.ts";
import type { MediaEvent, MediaNode } from "../protocol/media-node.ts";
import { withDeadline } from "./deadline.ts";

type Listener = (serverName: string, event: MediaEvent) => void;

/** The media nodes that this process can talk to, by their names in the fleet. */
export type MediaNodes = {
  find(serverName: string): MediaNode | null;
  /** Events of every node, also of those added later. */
  onEvent(listener: Listener): void;
  add(serverName: string, node: MediaNode, internalUrl?: string): void;
  remove(serverName: string): void;
  /** Where a node of that name lives right now; null when none does. Another one cannot take its name. */
  livesAt(serverName: string): string | null;
};

export function createMediaNodes(timers: Timers): MediaNodes {
  const nodes = new Map<string, { node: MediaNode; asked: MediaNode; internalUrl: string | undefined }>();
  const listeners: Listener[] = [];
  return {
    find: (serverName) => nodes.get(serverName)?.asked ?? null,
    onEvent: (listener) => void listeners.push(listener),
    remove: (serverName) => void nodes.delete(serverName),
    livesAt(serverName) {
      const { node, internalUrl = null } = nodes.get(serverName) ?? {};
      return node?.remote?.connected === false ? null : internalUrl;
    },
    add(serverName, node, internalUrl) {
      const known = nodes.get(serverName);
      const isKnown = known?.node === node;
      nodes.set(serverName, { node, asked: isKnown ? known.asked : withDeadline(node, timers), internalUrl });
      if (isKnown) return;
      node.onEvent((event) => {
        for (const listener of listeners) listener(serverName, event);
      });
    },
  };
}
