import { Command, Option } from "commander";
import { type Config, VARIABLES } from "../../kernel/config/index.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import type { OperationResult } from "../operations.ts";
import { print, printError } from "../print.ts";

const HELP = `
A drained node gets no new rooms and no new participants, and its participants rejoin on other nodes, a few each second.
Without another node its rooms continue until they are empty. Ctrl-C ends the waiting only: the node stays drained. The
server's own media workers are the node local, unless SFU_NODE_NAME names them; the members of a cluster need a name each.`;

const CHECK_EVERY_MS = 1_000;
/** A cluster has no leader for some seconds when one follows another. */
const NO_ANSWER_FOR_MS = 60_000;

type Node = OperationResult<"nodes show">;

export function drainCommand(argv: readonly string[]): Command {
  const drain = new Command("drain")
    .description("send a media node no more rooms, before it is stopped")
    .argument("<name>", "the node's name, its SFU_NODE_NAME")
    .option("--wait", "until the node has no rooms")
    .addOption(new Option("--undo", "send it rooms again").conflicts("wait"))
    .addHelpText("after", HELP)
    .action(async (name: string, options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const before = await operate(config, "nodes drain", { name, draining: options.undo !== true });
      if (options.undo) return print(`${name} gets new rooms again.`);
      print(`${name} gets no new rooms.`);
      if (config.COMMIT_LOG_URL !== undefined && name === VARIABLES.SFU_NODE_NAME.fallback) printError(SHARED_NAME);
      if (!options.wait) return;
      await emptied(config, before, () => operate(config, "nodes show", { name }));
      print(`${name} has no rooms.`);
    });
  return addConfigOptions(drain, argv, ["DATA_DIR"]);
}

const SHARED_NAME = `Every server of the cluster without an SFU_NODE_NAME has this name, so that the next leader gets no rooms either.`;

/** Resolves when the node has reported no rooms since `before`. */
async function emptied(config: Config, before: Node, show: () => Promise<Node>): Promise<void> {
  const { olderProcesses } = await import("../../nodes/older-process.ts");
  const { name } = before;
  let answeredAt = performance.now();
  for (;;) {
    const node = await show().catch((error: Error) => {
      if (performance.now() - answeredAt > NO_ANSWER_FOR_MS) throw error;
      return null;
    });
    if (node) {
      answeredAt = performance.now();
      if (node.status === "UNHEALTHY")
        throw new CommandFailure(
          `${name} has not reported since ${node.lastHeartbeatAt}: it has ended, or cannot reach the server.`,
        );
      if (node.status !== "DRAINING")
        throw new CommandFailure(`${name} gets new rooms again, because another command or operator said so.`);
      // After an upgrade, a process of an earlier version may have calls, which the node does not report as its own.
      const hasOlder = olderProcesses(config.DATA_DIR).some((older) => older.name.startsWith(`${name}.`));
      if (node.activeRooms === 0 && node.lastHeartbeatAt !== before.lastHeartbeatAt && !hasOlder) return;
    }
    await Bun.sleep(CHECK_EVERY_MS);
  }
}
