/** In a checkout the server runs in this process, so that a debugger sees both sides. */
import { rmSync } from "node:fs";
import { loadConfig } from "../../kernel/config/index.ts";
import { start } from "../../server.ts";
import type { ChildOptions, RunningStoa } from "./child-server.ts";
import { ensureDevData } from "./dev-data.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";

const GRACE_MS = 1_000;

export async function startInProcess({ dataDir, env }: ChildOptions): Promise<RunningStoa> {
  const folder = dataDir ?? createTemporaryFolder();
  const remove = () => {
    if (dataDir === undefined) rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", remove);
  try {
    const flags = { DATA_DIR: folder, PORT: env.PORT ?? "0", MEDIA_UDP_PORT: env.MEDIA_UDP_PORT ?? "0" };
    const { config } = loadConfig({ flags, env: { LOG_LEVEL: "warn", MEDIA_WARM_UP: "false", ...env }, file: {} });
    const server = await start(config);
    const { apiKey, projectId } = await ensureDevData(server);
    return {
      url: server.url,
      apiKey,
      projectId,
      async stop() {
        process.off("exit", remove);
        await server.stop("stopped by its owner", GRACE_MS);
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}
