/** A fake page with the events and observers that the SDK uses. */
export type Page = {
  /** Creates a visible element of this height. */
  video(height: number): HTMLVideoElement;
  resize(element: Element, height: number): void;
  scroll(element: Element, visible: boolean): void;
  show(visible: boolean): void;
  /** Dispatches an event on the window, such as `online` or `pageshow`. */
  dispatch(event: string): void;
  /** The number of listeners and observers that are still registered. */
  listenerCount(): number;
  close(): void;
};

type Rect = { height: number };
type Listener = Parameters<EventTarget["addEventListener"]>[1];

class CountingTarget extends EventTarget {
  readonly listeners = new Set<string>();
  readonly #names = new Map<unknown, number>();

  override addEventListener(type: string, listener: Listener): void {
    if (!this.#names.has(listener)) this.#names.set(listener, this.#names.size);
    this.listeners.add(`${type} ${this.#names.get(listener)}`);
    super.addEventListener(type, listener);
  }

  override removeEventListener(type: string, listener: Listener): void {
    this.listeners.delete(`${type} ${this.#names.get(listener)}`);
    super.removeEventListener(type, listener);
  }
}

class FakeElement extends EventTarget {
  srcObject: unknown = null;
  constructor(public height = 0) {
    super();
  }
  getBoundingClientRect = (): Rect => ({ height: this.height });
}

/** Replaces the globals with those of the page; `close` restores them. */
export function openPage({ devicePixelRatio = 1 } = {}): Page {
  const observers = { resize: new Set<FakeObserver>(), intersection: new Set<FakeObserver>() };
  class FakeObserver {
    readonly elements = new Set<Element>();
    constructor(
      readonly callback: (entries: object[]) => void,
      readonly all: Set<FakeObserver>,
    ) {
      all.add(this);
    }
    observe = (element: Element) => void this.elements.add(element);
    unobserve = (element: Element) => void this.elements.delete(element);
    disconnect = () => void this.all.delete(this);
  }
  const window = new CountingTarget();
  const document = Object.assign(new CountingTarget(), {
    visibilityState: "visible",
    createElement: () => new FakeElement(),
  });
  const globals: Record<string, unknown> = {
    document,
    devicePixelRatio,
    addEventListener: window.addEventListener.bind(window),
    removeEventListener: window.removeEventListener.bind(window),
    HTMLVideoElement: FakeElement,
    // A test may replace it; `close` restores it too.
    WebSocket: globalThis.WebSocket,
    MediaStream: class {
      constructor(readonly tracks: unknown[]) {}
      getTracks = () => this.tracks;
    },
    ResizeObserver: class extends FakeObserver {
      constructor(callback: (entries: object[]) => void) {
        super(callback, observers.resize);
      }
    },
    IntersectionObserver: class extends FakeObserver {
      constructor(callback: (entries: object[]) => void) {
        super(callback, observers.intersection);
      }
    },
  };
  const before = Object.fromEntries(
    Object.keys(globals).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]),
  );
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  const notify = (all: Set<FakeObserver>, element: Element, entry: object) => {
    for (const { elements, callback } of all) if (elements.has(element)) callback([{ target: element, ...entry }]);
  };
  return {
    video: (height) => new FakeElement(height) as unknown as HTMLVideoElement,
    resize: (element, height) => notify(observers.resize, element, { contentRect: { height } }),
    scroll: (element, isIntersecting) => notify(observers.intersection, element, { isIntersecting }),
    show(visible) {
      document.visibilityState = visible ? "visible" : "hidden";
      document.dispatchEvent(new Event("visibilitychange"));
    },
    dispatch: (event) => void window.dispatchEvent(new Event(event)),
    listenerCount: () =>
      window.listeners.size + document.listeners.size + observers.resize.size + observers.intersection.size,
    close() {
      for (const [name, descriptor] of Object.entries(before)) {
        if (descriptor) Object.defineProperty(globalThis, name, descriptor);
        else Reflect.deleteProperty(globalThis, name);
      }
    },
  };
}
