/**
 * The process that composes one room. The server starts it with a lower priority than calls, writes lines to its standard input,
 * and reads lines from its standard output. When the server ends, the input ends, and the process completes its files.
 */
import { createInterface } from "node:readline";
import { endFirstWithoutMemory } from "../../../kernel/own-command.ts";
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import { Composition } from "./composition.ts";
import type { FromCompositor, ToCompositor } from "./messages.ts";

export function runCompositor(): Promise<void> {
  endFirstWithoutMemory();
  const waiting = new Map<number, PromiseWithResolvers<NegotiateAnswer>>();
  let requests = 0;
  let composition: Composition | null = null;
  const done = Promise.withResolvers<void>();
  // If the server is gone, nobody reads what is written.
  process.stdout.on("error", () => {});
  const send = (message: FromCompositor) => void process.stdout.write(`${JSON.stringify(message)}\n`);

  function receive(message: ToCompositor): void {
    switch (message.type) {
      case "start":
        composition ??= new Composition(message, {
          negotiate(sdp, subscribe) {
            const request = ++requests;
            const answer = Promise.withResolvers<NegotiateAnswer>();
            waiting.set(request, answer);
            send({ type: "negotiate", request, sdp, subscribe });
            return answer.promise;
          },
          update: (tracks) => send({ type: "subscriptions", tracks }),
          started: () => send({ type: "started" }),
          slow: () => send({ type: "slow" }),
          output: (report) => send({ type: "output", ...report }),
          ended(error) {
            send({ type: "ended", error });
            done.resolve();
          },
          // A track may end while it is being subscribed to; the next scene no longer contains it.
          failed: () => {},
        });
        break;
      case "connect":
        composition?.connect();
        break;
      case "disconnect":
        composition?.disconnect();
        break;
      case "scene":
        composition?.show(message);
        break;
      case "layout":
        composition?.setLayout(message.layout);
        break;
      case "addOutput":
        composition?.addOutput(message.output);
        break;
      case "removeOutput":
        composition?.removeOutput(message.id);
        break;
      case "answer": {
        const request = waiting.get(message.request);
        waiting.delete(message.request);
        if (message.answer) request?.resolve(message.answer);
        else request?.reject(new Error(message.error ?? "refused"));
        break;
      }
      case "stop":
        void composition?.end();
        break;
    }
  }

  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => receive(JSON.parse(line) as ToCompositor));
  lines.on("close", () => {
    if (composition) void composition.end();
    else done.resolve();
  });
  // Ctrl+C in a terminal reaches all processes of the group; the server says when to end.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});
  return done.promise;
}
