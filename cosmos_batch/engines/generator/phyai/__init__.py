"""The engine `phyai`: PhyAI as a torchrun group."""
