import type { Timers } from "../kernel/time/timers.ts";
import {
  MEDIA_METHODS,
  MediaError,
  type MediaEvent,
  type MediaMethod,
  type MediaNode,
} from "../protocol/media-node.ts";

type Listener = (serverName: string, event: MediaEvent) => void;

/** The media nodes that this process can call, by their names in the fleet. */
export type MediaNodes = {
  find(serverName: string): MediaNode | null;
  /** Events of every node, including those added later. */
  onEvent(listener: Listener): void;
  add(serverName: string, node: MediaNode, internalUrl?: string): void;
  /** Stops reporting the node's events. */
  remove(serverName: string): void;
  /** The URL of the connected node with this name, which no other node can use meanwhile; null if it is not connected. */
  urlOf(serverName: string): string | null;
};

export function createMediaNodes(timers: Timers): MediaNodes {
  type Known = { node: MediaNode; withDeadline: MediaNode; internalUrl: string | undefined; forget: () => void };
  const nodes = new Map<string, Known>();
  const listeners: Listener[] = [];
  return {
    find: (serverName) => nodes.get(serverName)?.withDeadline ?? null,
    onEvent: (listener) => void listeners.push(listener),
    remove(serverName) {
      nodes.get(serverName)?.forget();
      nodes.delete(serverName);
    },
    urlOf(serverName) {
      const { node, internalUrl = null } = nodes.get(serverName) ?? {};
      return node?.remote?.connected === false ? null : internalUrl;
    },
    add(serverName, node, internalUrl) {
      const known = nodes.get(serverName);
      if (known?.node === node) {
        known.internalUrl = internalUrl;
        return;
      }
      const forget = node.onEvent((event) => {
        for (const listener of listeners) listener(serverName, event);
      });
      nodes.set(serverName, { node, withDeadline: withDeadline(node, timers), internalUrl, forget });
    },
  };
}

/** Longer than any response takes, and short enough for a waiting client to retry. */
const ANSWER_WITHIN_MS = 10_000;

/**
 * Makes requests to a stuck worker or an unresponsive machine fail with `RTC_SERVER_UNREACHABLE` instead of waiting.
 */
function withDeadline(node: MediaNode, timers: Timers): MediaNode {
  const call =
    (method: MediaMethod) =>
    (request: never): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const cancel = timers.after(ANSWER_WITHIN_MS, () =>
          reject(new MediaError("RTC_SERVER_UNREACHABLE", "The media server does not answer.")),
        );
        node[method](request).then(resolve, reject).finally(cancel);
      });
  const methods = Object.fromEntries(MEDIA_METHODS.map((method) => [method, call(method)])) as Pick<
    MediaNode,
    MediaMethod
  >;
  return {
    ...methods,
    get remote() {
      return node.remote;
    },
    onEvent: (listener) => node.onEvent(listener),
    close: () => node.close(),
  };
}
