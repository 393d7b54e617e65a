export type Visibility = { visible: boolean; heightPx: number };

/** Observes the visibility and size of a track's elements, so that the server sends only the layer that is shown. */
export class ElementObserver {
  readonly #elements = new Map<Element, Visibility>();
  #resize: ResizeObserver | undefined;
  #intersection: IntersectionObserver | undefined;

  constructor(readonly onChange: () => void) {}

  get visibility(): Visibility {
    const pageVisible = document.visibilityState === "visible";
    let heightPx = 0;
    for (const element of this.#elements.values()) if (element.visible) heightPx = Math.max(heightPx, element.heightPx);
    return { visible: pageVisible && heightPx > 0, heightPx };
  }

  get size(): number {
    return this.#elements.size;
  }

  add(element: Element): void {
    if (this.#elements.size === 0) this.#start();
    const rect = element.getBoundingClientRect();
    this.#elements.set(element, { visible: true, heightPx: Math.max(1, Math.round(rect.height * devicePixelRatio)) });
    this.#resize?.observe(element);
    this.#intersection?.observe(element);
    this.onChange();
  }

  remove(element: Element): void {
    if (!this.#elements.delete(element)) return;
    this.#resize?.unobserve(element);
    this.#intersection?.unobserve(element);
    if (this.#elements.size === 0) this.#stop();
    this.onChange();
  }

  close(): void {
    this.#elements.clear();
    this.#stop();
  }

  #start(): void {
    this.#resize = new ResizeObserver((entries) => {
      for (const { target, contentRect } of entries) {
        const known = this.#elements.get(target);
        if (known) known.heightPx = Math.max(1, Math.round(contentRect.height * devicePixelRatio));
      }
      this.onChange();
    });
    this.#intersection = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const known = this.#elements.get(target);
        if (known) known.visible = isIntersecting;
      }
      this.onChange();
    });
    document.addEventListener("visibilitychange", this.onChange);
  }

  #stop(): void {
    this.#resize?.disconnect();
    this.#intersection?.disconnect();
    this.#resize = this.#intersection = undefined;
    document.removeEventListener("visibilitychange", this.onChange);
  }
}
