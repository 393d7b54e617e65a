import type { BunPlugin } from "bun";

/** Modules of the SDK that are files of their own beside it, which a page loads only when it needs them. */
export const ON_DEMAND_MODULES = {
  "sdk-encryption.js": "encryption/encryption.ts",
  "sdk-push.js": "chat/push.ts",
  "sdk-send-file.js": "../../src/protocol/data/send-file.ts",
  "sdk-captions.js": "../../src/protocol/data/captions.ts",
  "sdk-request-streams.js": "../../src/protocol/data/request-streams.ts",
  "sdk-upload.js": "chat/upload.ts",
  "sdk-shared-voices.js": "room/peer/shared-voices.ts",
  "sdk-stats.js": "room/peer/stats.ts",
  "sdk-device-changes.js": "room/device-changes.ts",
  "sdk-backup-codec.js": "room/peer/backup-codec.ts",
  "sdk-quality-limitation.js": "room/peer/quality-limitation.ts",
};

const MODULE_NAMES = Object.keys(ON_DEMAND_MODULES).map((name) => name.replace(/^sdk-(.*)\.js$/, "$1"));

export const ON_DEMAND: BunPlugin = {
  name: "on-demand",
  setup(build) {
    build.onResolve({ filter: new RegExp(`/(${MODULE_NAMES.join("|")})\\.ts$`) }, ({ kind, path }) => {
      if (kind !== "dynamic-import") return undefined;
      return { path: path.replace(/^.*\/(.*)\.ts$/, "./sdk-$1.js"), external: true };
    });
  },
};
