"""What is handed out: distributions with their bills of materials, and an archive for sites without
internet."""
