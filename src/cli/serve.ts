import { Command } from "commander";
import { VERSION } from "../kernel/version.ts";
import { reachableUrls } from "./addresses.ts";
import { addConfigOptions, configFrom } from "./config-options.ts";
import { runUntilSignal } from "./signals.ts";

export function serveCommand(argv: readonly string[]): Command {
  const serve = new Command("serve")
    .description("run the server")
    .option("--rotate-secret", "accept another STOA_SECRET: keys and sessions made with the old one stop working")
    .action(async (options) => {
      const { config } = configFrom(options);
      const { boot } = await import("./boot.ts");
      await runUntilSignal(async () => {
        const server = await boot(config, { rotateSecret: options.rotateSecret });
        const urls = config.PUBLIC_URL === undefined ? reachableUrls(server.url, config.HOST) : [config.PUBLIC_URL];
        console.log(greeting(urls, config.DATA_DIR));
        return server;
      });
    });
  return addConfigOptions(serve, argv, "all");
}

function greeting(urls: readonly string[], dataDir: string): string {
  const lines = [`Stoa ${VERSION}   data ${dataDir}`, ...urls.map((url) => `  Listening   ${url}`)];
  return lines.join("\n");
}
