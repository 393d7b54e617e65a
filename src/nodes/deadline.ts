import type { Timers } from "../kernel/time/timers.ts";
import { MEDIA_METHODS, MediaError, type MediaMethod, type MediaNode } from "../protocol/media-node.ts";

/** Longer than any honest answer takes; a client that waits for one hears of it in time to try again. */
const ANSWER_WITHIN_MS = 10_000;

/** The same node, which always answers: a stuck worker or a silent machine is `RTC_SERVER_UNREACHABLE`, not a wait. */
export function withDeadline(node: MediaNode, timers: Timers): MediaNode {
  const ask =
    (method: MediaMethod) =>
    (request: never): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const cancel = timers.after(ANSWER_WITHIN_MS, () =>
          reject(new MediaError("RTC_SERVER_UNREACHABLE", "The media server does not answer.")),
        );
        node[method](request).then(resolve, reject).finally(cancel);
      });
  const methods = Object.fromEntries(MEDIA_METHODS.map((method) => [method, ask(method)])) as Pick<
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
