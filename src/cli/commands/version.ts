import { readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { Command } from "commander";
import { PLATFORM, VERSION } from "../../kernel/version.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";
import { verifyRelease } from "../release.ts";

type Options = { json?: true; verify?: true; release?: string; key?: string };

export function versionCommand(): Command {
  return new Command("version")
    .description("print the version, the platform and the runtime")
    .option("--json", "as one JSON object")
    .option("--verify", "check this program against the signed list of its release")
    .option(
      "--release <folder>",
      "with --verify: where checksums.txt and checksums.txt.minisig are (default: where install.sh put them)",
    )
    .option("--key <key>", "with --verify: the release's minisign public key (default: the one that install.sh kept)")
    .action(async (options: Options) => {
      const platform = `${process.platform}-${process.arch}`;
      const verified = options.verify === true ? await verify(options) : null;
      if (options.json === true) print(JSON.stringify({ version: VERSION, platform, bun: Bun.version, ...verified }));
      else print(`stoa ${VERSION} (${platform}, Bun ${Bun.version})`);
      if (verified && options.json !== true) print(`signed with ${verified.key}, SHA-256 ${verified.sha256}`);
    });
}

async function verify({ release, key }: Options): Promise<{ key: string; sha256: string }> {
  if (PLATFORM === null) throw new CommandFailure("this runs from source, so there is no release to verify it against");
  const path = realpathSync(process.execPath);
  const folder = release ?? join(dirname(path), "../share/stoa");
  const trusted = key ?? keptKey(folder);
  return { key: trusted, sha256: await verifyRelease(folder, trusted, { path, version: VERSION, platform: PLATFORM }) };
}

function keptKey(folder: string): string {
  try {
    return readFileSync(join(folder, "release.pub"), "utf8").trim();
  } catch {
    throw new CommandFailure(
      `there is no release key in ${folder}: install a signed release with install.sh, or name the key with --key`,
    );
  }
}
