import { Command } from "commander";
import { ownCommandLine } from "../../kernel/own-command.ts";
import { runCommand } from "../run-command.ts";
import { startChildServer } from "../start/child-server.ts";

const HELP = `
The command gets STOA_URL, STOA_API_KEY and STOA_WS (the address of the RTC socket). Its exit code is passed on.

  stoa test -- npx playwright test
  stoa test -- sh -c 'curl -s $STOA_URL/readyz'`;

export function testCommand(): Command {
  return new Command("test")
    .description("run a command against a temporary server, which is removed afterwards")
    .argument("<command...>", "what to run, after --")
    .addHelpText("after", HELP)
    .action(async (command: string[]) => {
      const server = await startChildServer(ownCommandLine(), { env: {} });
      const environment = {
        STOA_URL: server.url,
        STOA_API_KEY: server.apiKey,
        STOA_WS: `${server.url.replace(/^http/, "ws")}/v1/rtc`,
      };
      // The server gets the process id of the command on this pipe, and ends the command if this process is killed.
      const { stdin } = server.child;
      const send = (line: string) => new Promise<void>((sent) => stdin?.write(`${line}\n`, () => sent()));
      const code = await runCommand(command, environment, (pid) => send(`command ${pid}`));
      void send("done");
      await server.stop();
      process.exit(code);
    });
}
