declare module "../kernel/bus.ts" {
  interface BusEvents {
    /** A media node registered or reported. */
    rtcServerSeen: { name: string; internalUrl: string };
  }
}

export {};
