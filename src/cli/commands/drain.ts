import { Command } from "commander";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { print } from "../print.ts";

const HELP = `
A drained node gets no new rooms and no new participants, and its participants rejoin on other nodes, a few each second.
Without another node its rooms continue until they are empty. The server's own media workers are the node local, unless
SFU_NODE_NAME names them; the members of a cluster need a name each.`;

const CHECK_EVERY_MS = 1_000;

export function drainCommand(argv: readonly string[]): Command {
  const drain = new Command("drain")
    .description("send a media node no more rooms, before it is stopped")
    .argument("<name>", "the node's name, its SFU_NODE_NAME")
    .option("--wait", "until the node has no rooms")
    .option("--undo", "send it rooms again")
    .addHelpText("after", HELP)
    .action(async (name: string, options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const before = await operate(config, "nodes drain", { name, draining: options.undo !== true });
      if (options.undo) return print(`${name} gets new rooms again.`);
      if (!options.wait) return print(`${name} gets no new rooms.`);
      for (;;) {
        const { activeRooms, lastHeartbeatAt } = await operate(config, "nodes show", { name });
        if (activeRooms === 0 && lastHeartbeatAt !== before.lastHeartbeatAt) break;
        await Bun.sleep(CHECK_EVERY_MS);
      }
      print(`${name} has no rooms and gets no new ones.`);
    });
  return addConfigOptions(drain, argv, ["DATA_DIR"]);
}
