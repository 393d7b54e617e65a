import { Command } from "commander";
import { VERSION } from "../../kernel/version.ts";
import { print } from "../print.ts";

export function versionCommand(): Command {
  return new Command("version")
    .description("print the version, the platform and the runtime")
    .option("--json", "as one JSON object")
    .action(({ json }: { json?: true }) => {
      const platform = `${process.platform}-${process.arch}`;
      print(
        json === true
          ? JSON.stringify({ version: VERSION, platform, bun: Bun.version })
          : `stoa ${VERSION} (${platform}, Bun ${Bun.version})`,
      );
    });
}
