import type { PacketPath } from "../forwarding/packet-path.ts";
import { openNativeEngine } from "./library.ts";
import { NativeCipher } from "./native-cipher.ts";
import { createNativeFanOut } from "./native-fan-out.ts";
import { createNativeFanOutAlike } from "./native-fan-out-alike.ts";
import { NativeReceiver } from "./native-receiver.ts";
import { createNativeSend } from "./native-send.ts";
import { NativeTake } from "./native-take.ts";
import { NativeWatch } from "./native-watch.ts";

export type NativePath = PacketPath & {
  readonly watch: NativeWatch;
  /** Keys that were made and not let go of. */
  liveCiphers(): number;
};

/** Throws when the library cannot be loaded here. */
export function openNativePath(libraryPath: string): NativePath {
  const native = openNativeEngine(libraryPath);
  const { functions } = native;
  const take = new NativeTake(native);
  return {
    name: "native",
    createCipher: (master) => new NativeCipher(native, master),
    createReceiver: (master) => new NativeReceiver(native, take, master),
    take,
    watch: new NativeWatch(native),
    fanOut: createNativeFanOut(native),
    ...createNativeFanOutAlike(native),
    send: createNativeSend(native),
    liveCiphers: () => functions.stoa_live_ciphers(native.engine),
    close: () => {
      functions.stoa_close(native.engine);
      native.engine = null;
    },
  };
}
