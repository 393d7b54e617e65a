/**
 * Opens an address in a new window once it is known. Browsers block windows that a page opens later than in the click
 * itself, so an empty one is opened first.
 */
export async function openWhenKnown(address: Promise<string>): Promise<void> {
  const page = window.open("", "_blank");
  try {
    const url = await address;
    if (!page) throw new Error("The browser has blocked the window. Allow pop-ups for this page.");
    page.opener = null;
    page.location.href = url;
  } catch (error) {
    page?.close();
    throw error;
  }
}
